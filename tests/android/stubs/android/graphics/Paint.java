package android.graphics;

public class Paint {
    public int getColor() { throw new android.app.Stub(); }
    public void setColor(int color) {}
}
