package android.graphics;

public final class ImageDecoder {
    public static final int ALLOCATOR_SOFTWARE = 1;

    public static Source createSource(android.content.ContentResolver cr, android.net.Uri uri) { throw new android.app.Stub(); }
    public static Bitmap decodeBitmap(Source src, OnHeaderDecodedListener listener) throws java.io.IOException {
        throw new android.app.Stub();
    }
    public int getAllocator() { throw new android.app.Stub(); }
    public void setAllocator(int allocator) {}
    public void setTargetSampleSize(int sampleSize) {}

    public abstract static class Source {}

    public interface OnHeaderDecodedListener {
        void onHeaderDecoded(ImageDecoder decoder, ImageInfo info, Source source);
    }

    public static class ImageInfo {
        public android.util.Size getSize() { throw new android.app.Stub(); }
    }
}
