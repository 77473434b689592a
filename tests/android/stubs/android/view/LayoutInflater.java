package android.view;

public abstract class LayoutInflater {
    public static LayoutInflater from(android.content.Context context) { throw new android.app.Stub(); }
    public View inflate(int resource, ViewGroup root, boolean attachToRoot) { throw new android.app.Stub(); }
}
