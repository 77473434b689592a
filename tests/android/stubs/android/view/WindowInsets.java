package android.view;

public final class WindowInsets {
    public android.graphics.Insets getInsets(int typeMask) { throw new android.app.Stub(); }
    @Deprecated public int getSystemWindowInsetLeft() { throw new android.app.Stub(); }
    @Deprecated public int getSystemWindowInsetTop() { throw new android.app.Stub(); }
    @Deprecated public int getSystemWindowInsetRight() { throw new android.app.Stub(); }
    @Deprecated public int getSystemWindowInsetBottom() { throw new android.app.Stub(); }

    public static final class Type {
        public static int displayCutout() { throw new android.app.Stub(); }
        public static int ime() { throw new android.app.Stub(); }
        public static int systemBars() { throw new android.app.Stub(); }
    }
}
