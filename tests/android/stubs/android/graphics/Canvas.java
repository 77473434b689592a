package android.graphics;

public class Canvas {
    public Canvas(Bitmap bitmap) {}
    public void drawRect(float left, float top, float right, float bottom, Paint paint) {}
}
