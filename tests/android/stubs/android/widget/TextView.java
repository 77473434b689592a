package android.widget;

public class TextView extends android.view.View {
    public TextView(android.content.Context context) { super(context); }
    public CharSequence getText() { throw new android.app.Stub(); }
    public final void setText(CharSequence text) {}
    public final void setText(int resid) {}
    public final void setHint(int resid) {}
    public CharSequence getError() { throw new android.app.Stub(); }
    public void setError(CharSequence error) {}
}
