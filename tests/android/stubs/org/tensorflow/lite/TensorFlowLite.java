package org.tensorflow.lite;

public final class TensorFlowLite {
    public static void init() {}
}
