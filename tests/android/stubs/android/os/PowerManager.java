package android.os;

public final class PowerManager {
    public int getCurrentThermalStatus() { throw new android.app.Stub(); }
    public boolean isPowerSaveMode() { throw new android.app.Stub(); }
    public boolean isInteractive() { throw new android.app.Stub(); }
}
