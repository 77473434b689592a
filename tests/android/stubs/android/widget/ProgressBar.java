package android.widget;

public class ProgressBar extends android.view.View {
    public ProgressBar(android.content.Context context) { super(context); }
    public int getMax() { throw new android.app.Stub(); }
    public void setMax(int max) {}
    public int getProgress() { throw new android.app.Stub(); }
    public void setProgress(int progress) {}
    public boolean isIndeterminate() { throw new android.app.Stub(); }
    public void setIndeterminate(boolean indeterminate) {}
}
