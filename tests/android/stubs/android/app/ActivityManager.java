package android.app;

public class ActivityManager {
    public void getMemoryInfo(MemoryInfo outInfo) {}

    public static class MemoryInfo {
        public long totalMem;
    }
}
