package android.view;

public class View {
    public static final int GONE = 8;
    public static final int INVISIBLE = 4;
    public static final int VISIBLE = 0;

    public View(android.content.Context context) {}
    public View(android.content.Context context, android.util.AttributeSet attrs) {}
    public static int generateViewId() { throw new android.app.Stub(); }
    public final <T extends View> T findViewById(int id) { throw new android.app.Stub(); }
    public final android.content.Context getContext() { throw new android.app.Stub(); }
    public android.content.res.Resources getResources() { throw new android.app.Stub(); }
    public CharSequence getContentDescription() { throw new android.app.Stub(); }
    public void setContentDescription(CharSequence contentDescription) {}
    public final int getWidth() { throw new android.app.Stub(); }
    public final int getHeight() { throw new android.app.Stub(); }
    public int getId() { throw new android.app.Stub(); }
    public void setId(int id) {}
    public int getVisibility() { throw new android.app.Stub(); }
    public void setVisibility(int visibility) {}
    public boolean isEnabled() { throw new android.app.Stub(); }
    public void setEnabled(boolean enabled) {}
    public boolean isSaveEnabled() { throw new android.app.Stub(); }
    public void setSaveEnabled(boolean enabled) {}
    public int getLabelFor() { throw new android.app.Stub(); }
    public void setLabelFor(int id) {}
    public int getPaddingLeft() { throw new android.app.Stub(); }
    public int getPaddingTop() { throw new android.app.Stub(); }
    public int getPaddingRight() { throw new android.app.Stub(); }
    public int getPaddingBottom() { throw new android.app.Stub(); }
    public void setPadding(int left, int top, int right, int bottom) {}
    public void setOnClickListener(OnClickListener l) {}
    public void setOnApplyWindowInsetsListener(OnApplyWindowInsetsListener listener) {}
    public void invalidate() {}
    protected void onDraw(android.graphics.Canvas canvas) {}

    public interface OnClickListener {
        void onClick(View v);
    }

    public interface OnApplyWindowInsetsListener {
        WindowInsets onApplyWindowInsets(View v, WindowInsets insets);
    }
}
