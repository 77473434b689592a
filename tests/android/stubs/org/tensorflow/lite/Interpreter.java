package org.tensorflow.lite;

import java.io.File;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Map;

/** A stand-in: adds its state to x and to itself, and holds buffers to the rules of LiteRT's own sources. */
public final class Interpreter implements AutoCloseable {
    public static class Options {
        public Options setNumThreads(int threads) {
            return this;
        }
    }

    private static final int BYTES = 8;

    public Interpreter(File file, Options options) {
        if (!file.isFile()) throw new IllegalArgumentException("Contents of " + file + " cannot be read");
    }

    public void allocateTensors() {}

    public String[] getSignatureOutputs(String key) {
        return new String[] {"output_0", "output_1"};
    }

    public Tensor getOutputTensorFromSignature(String output, String key) {
        return new Tensor() {
            public DataType dataType() {
                return DataType.FLOAT32;
            }

            public int[] shape() {
                return new int[] {2};
            }
        };
    }

    public void runSignature(Map<String, Object> inputs, Map<String, Object> outputs, String key) {
        if (!inputs.keySet().equals(java.util.Set.of("x", "state_in.sum"))) throw new IllegalArgumentException("inputs " + inputs.keySet());
        ByteBuffer x = (ByteBuffer) inputs.get("x"), sum = (ByteBuffer) inputs.get("state_in.sum");
        for (ByteBuffer each : new ByteBuffer[] {x, sum}) {
            if (!each.isDirect() || each.order() != ByteOrder.nativeOrder()) throw new IllegalArgumentException("a slow buffer");
        }
        byte[] first = new byte[BYTES];
        ByteBuffer made = ByteBuffer.wrap(first).order(ByteOrder.nativeOrder());
        for (int at = 0; at < BYTES; at += 4) made.putFloat(at, x.getFloat(at) + sum.getFloat(at));
        for (String name : new String[] {"output_0", "output_1"}) {
            ByteBuffer into = (ByteBuffer) outputs.get(name);
            if (into.capacity() != BYTES || into.position() != 0) throw new IllegalArgumentException("a buffer of another size");
            into.put(first);
        }
    }

    public void close() {}
}
