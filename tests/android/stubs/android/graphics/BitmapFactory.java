package android.graphics;

public class BitmapFactory {
    public static Bitmap decodeStream(java.io.InputStream is, Rect outPadding, Options opts) { throw new android.app.Stub(); }

    public static class Options {
        public boolean inJustDecodeBounds;
        public int inSampleSize;
        public int outWidth;
        public int outHeight;
    }
}
