package android.widget;

public abstract class AdapterView<T extends Adapter> extends android.view.ViewGroup {
    public AdapterView(android.content.Context context) { super(context); }
    public abstract T getAdapter();
    public abstract void setAdapter(T adapter);
    public int getSelectedItemPosition() { throw new android.app.Stub(); }
    public void setSelection(int position) {}
    public final OnItemSelectedListener getOnItemSelectedListener() { throw new android.app.Stub(); }
    public void setOnItemSelectedListener(OnItemSelectedListener listener) {}

    public interface OnItemSelectedListener {
        void onItemSelected(AdapterView<?> parent, android.view.View view, int position, long id);
        void onNothingSelected(AdapterView<?> parent);
    }
}
