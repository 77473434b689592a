package android.media;

public class MediaRecorder {
    public static class AudioSource {
        public static final int VOICE_RECOGNITION = 6;
    }
}
