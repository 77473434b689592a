package android.content;

public abstract class Context {
    public abstract android.content.res.AssetManager getAssets();
    public abstract android.content.res.Resources getResources();
    public abstract ContentResolver getContentResolver();
    public abstract Context getApplicationContext();
    public abstract android.content.pm.ApplicationInfo getApplicationInfo();
    public abstract String getPackageName();
    public abstract java.io.File getFilesDir();
    public abstract java.io.File getExternalFilesDir(String type);
    public abstract int checkSelfPermission(String permission);
    public abstract void startActivity(Intent intent);
    public abstract Intent registerReceiver(BroadcastReceiver receiver, IntentFilter filter);
    public final <T> T getSystemService(Class<T> serviceClass) { throw new android.app.Stub(); }
    public final String getString(int resId) { throw new android.app.Stub(); }
    public final String getString(int resId, Object... formatArgs) { throw new android.app.Stub(); }
    public final int getColor(int id) { throw new android.app.Stub(); }
}
