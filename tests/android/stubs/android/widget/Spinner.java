package android.widget;

public class Spinner extends AdapterView<SpinnerAdapter> {
    public Spinner(android.content.Context context) { super(context); }
    public SpinnerAdapter getAdapter() { throw new android.app.Stub(); }
    public void setAdapter(SpinnerAdapter adapter) {}
}
