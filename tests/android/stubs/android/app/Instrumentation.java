package android.app;

import android.content.Context;
import android.os.Bundle;

public class Instrumentation {
    public void onCreate(Bundle arguments) {}
    public void onStart() {}
    public void start() {}
    public void finish(int resultCode, Bundle results) {}
    public void sendStatus(int resultCode, Bundle results) {}
    public Context getTargetContext() { throw new android.app.Stub(); }
}
