package android.widget;

public class EditText extends TextView {
    public EditText(android.content.Context context) { super(context); }
    public android.text.Editable getText() { throw new android.app.Stub(); }
}
