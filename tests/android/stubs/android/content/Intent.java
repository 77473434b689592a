package android.content;

public class Intent {
    public static final String ACTION_BATTERY_CHANGED = "android.intent.action.BATTERY_CHANGED";
    public static final String ACTION_OPEN_DOCUMENT = "android.intent.action.OPEN_DOCUMENT";
    public static final String ACTION_SEND = "android.intent.action.SEND";
    public static final String CATEGORY_OPENABLE = "android.intent.category.OPENABLE";
    public static final String EXTRA_SUBJECT = "android.intent.extra.SUBJECT";
    public static final String EXTRA_TEXT = "android.intent.extra.TEXT";

    public Intent(String action) {}
    public Intent(Context packageContext, Class<?> cls) {}
    public static Intent createChooser(Intent target, CharSequence title) { throw new android.app.Stub(); }
    public Intent addCategory(String category) { throw new android.app.Stub(); }
    public Intent setType(String type) { throw new android.app.Stub(); }
    public Intent putExtra(String name, String value) { throw new android.app.Stub(); }
    public android.net.Uri getData() { throw new android.app.Stub(); }
    public int getIntExtra(String name, int defaultValue) { throw new android.app.Stub(); }
    public String getStringExtra(String name) { throw new android.app.Stub(); }
    public boolean hasExtra(String name) { throw new android.app.Stub(); }
}
