package android.content;

public class ContextWrapper extends Context {
    public android.content.res.AssetManager getAssets() { throw new android.app.Stub(); }
    public android.content.res.Resources getResources() { throw new android.app.Stub(); }
    public ContentResolver getContentResolver() { throw new android.app.Stub(); }
    public Context getApplicationContext() { throw new android.app.Stub(); }
    public android.content.pm.ApplicationInfo getApplicationInfo() { throw new android.app.Stub(); }
    public String getPackageName() { throw new android.app.Stub(); }
    public java.io.File getFilesDir() { throw new android.app.Stub(); }
    public java.io.File getExternalFilesDir(String type) { throw new android.app.Stub(); }
    public int checkSelfPermission(String permission) { throw new android.app.Stub(); }
    public void startActivity(Intent intent) {}
    public Intent registerReceiver(BroadcastReceiver receiver, IntentFilter filter) { throw new android.app.Stub(); }
}
