package android.content.res;

public class Resources {
    public String getString(int id) { throw new android.app.Stub(); }
    public String getString(int id, Object... formatArgs) { throw new android.app.Stub(); }
    public String getQuantityString(int id, int quantity, Object... formatArgs) { throw new android.app.Stub(); }
    public String[] getStringArray(int id) { throw new android.app.Stub(); }
}
