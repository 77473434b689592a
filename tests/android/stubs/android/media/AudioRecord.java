package android.media;

public class AudioRecord {
    public static final int STATE_INITIALIZED = 1;
    public static final int READ_BLOCKING = 0;
    public AudioRecord(int source, int rate, int channels, int encoding, int bytes) {}
    public static native int getMinBufferSize(int rate, int channels, int encoding);
    public native int getState();
    public native void startRecording();
    public native int read(float[] into, int offset, int count, int mode);
    public native void release();
}
