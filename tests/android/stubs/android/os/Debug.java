package android.os;

public final class Debug {
    public static long getPss() { throw new android.app.Stub(); }
    public static long getNativeHeapAllocatedSize() { throw new android.app.Stub(); }
}
