package android.app;

import android.content.Intent;
import android.os.Bundle;
import android.view.View;
import android.view.Window;

public class Activity extends android.view.ContextThemeWrapper {
    public static final int RESULT_CANCELED = 0;
    public static final int RESULT_OK = -1;

    protected void onCreate(Bundle savedInstanceState) {}
    protected void onStart() {}
    protected void onStop() {}
    protected void onActivityResult(int requestCode, int resultCode, Intent data) {}
    public void setContentView(int layoutResID) {}
    public <T extends View> T findViewById(int id) { throw new android.app.Stub(); }
    public final Application getApplication() { throw new android.app.Stub(); }
    public Intent getIntent() { throw new android.app.Stub(); }
    public Window getWindow() { throw new android.app.Stub(); }
    public final void requestPermissions(String[] permissions, int requestCode) {}
    public void onRequestPermissionsResult(int requestCode, String[] permissions, int[] grantResults) {}
    public void startActivityForResult(Intent intent, int requestCode) {}
}
