package android.os;

public class BaseBundle {
    public String getString(String key) { throw new android.app.Stub(); }
    public void putString(String key, String value) {}
}
