package android.media;

public class AudioFormat {
    public static final int CHANNEL_IN_MONO = 16;
    public static final int ENCODING_PCM_FLOAT = 4;
}
