package android;

public class Manifest {
    public static class permission {
        public static final String RECORD_AUDIO = "android.permission.RECORD_AUDIO";
    }
}
