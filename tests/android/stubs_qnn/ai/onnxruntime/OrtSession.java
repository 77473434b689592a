package ai.onnxruntime;

import java.util.Map;

/** What ONNX Runtime's classes from 1.18 on have in addition, after its makers' sources. */
public class OrtSession {
    public static class SessionOptions {
        public void addQnn(Map<String, String> options) {}
        public void addConfigEntry(String key, String value) {}
    }
}
