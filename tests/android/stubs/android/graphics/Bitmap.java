package android.graphics;

public final class Bitmap {
    public static Bitmap createBitmap(int[] colors, int width, int height, Config config) { throw new android.app.Stub(); }
    public Bitmap copy(Config config, boolean isMutable) { throw new android.app.Stub(); }
    public int getWidth() { throw new android.app.Stub(); }
    public int getHeight() { throw new android.app.Stub(); }
    public void getPixels(int[] pixels, int offset, int stride, int x, int y, int width, int height) {}

    public enum Config { ARGB_8888 }
}
