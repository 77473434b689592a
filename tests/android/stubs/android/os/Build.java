package android.os;

public class Build {
    public static final String FINGERPRINT = null;
    public static final String HARDWARE = null;
    public static final String MANUFACTURER = null;
    public static final String MODEL = null;
    public static final String SOC_MANUFACTURER = null;
    public static final String SOC_MODEL = null;
    public static final String[] SUPPORTED_ABIS = null;

    public static class VERSION {
        public static final String RELEASE = null;
        public static final int SDK_INT = Integer.parseInt("0");
    }
}
