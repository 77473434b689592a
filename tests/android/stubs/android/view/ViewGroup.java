package android.view;

public abstract class ViewGroup extends View {
    public ViewGroup(android.content.Context context) { super(context); }
    public void addView(View child) {}
    public View getChildAt(int index) { throw new android.app.Stub(); }
    public int getChildCount() { throw new android.app.Stub(); }
    public void removeAllViews() {}
}
