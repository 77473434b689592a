package android.util;

public final class Size {
    public int getWidth() { throw new android.app.Stub(); }
    public int getHeight() { throw new android.app.Stub(); }
}
