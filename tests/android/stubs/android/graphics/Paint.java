package android.graphics;

public class Paint {
    public int getColor() { throw new android.app.Stub(); }
    public void setColor(int color) {}
    public Style getStyle() { throw new android.app.Stub(); }
    public void setStyle(Style style) {}
    public float getStrokeWidth() { throw new android.app.Stub(); }
    public void setStrokeWidth(float width) {}

    public enum Style { FILL, STROKE, FILL_AND_STROKE }
}
