package androidx.test.platform.app;

public final class InstrumentationRegistry {
    public static android.app.Instrumentation getInstrumentation() { throw new android.app.Stub(); }
}
