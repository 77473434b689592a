package dev.edgex.model.engine

import dev.edgex.model.tensor.DType
import dev.edgex.model.tensor.TensorData
import org.tensorflow.lite.DataType
import org.tensorflow.lite.Interpreter
import org.tensorflow.lite.TensorFlowLite

/** LiteRT behind [InferenceEngine], on its XNNPACK delegate. Inputs go by name, outputs by their place, those of the state last. */
class LiteRtEngine private constructor(private val interpreter: Interpreter, program: ModelProgram) : InferenceEngine {
    private val inputNames = program.inputs
    private val stateNames = program.state.map { it.input }
    private var inputs = emptyList<TensorData>()
    private var state = program.state.map { it.initial }

    // Written by each run. What is read of the state is another memory than what is written.
    private val results = List(interpreter.getSignatureOutputs(SIGNATURE).size) { allocate(nameOf(it)) }
    private val outputs = results.dropLast(state.size)
    private var spare = results.takeLast(state.size)

    override fun bind(inputs: List<TensorData>) {
        if (inputs.size != inputNames.size) throw EngineException("the model takes ${inputNames.size} inputs, not ${inputs.size}")
        this.inputs = inputs
    }

    override fun run() {
        check(inputs.isNotEmpty()) { "no inputs are bound" }
        val given = (inputNames + stateNames).zip((inputs + state).map { it.bytes }).toMap()
        // LiteRT moves the position of what it writes to.
        val taken = (outputs + spare).withIndex().associate { (at, tensor) -> nameOf(at) to tensor.bytes.duplicate() }
        explained("run the model") { interpreter.runSignature(given, taken, SIGNATURE) }
        state = spare.also { spare = state }
    }

    override fun outputs(): List<TensorData> = outputs.map { it.copy() }

    override fun close() = interpreter.close()

    private fun allocate(output: String): TensorData {
        val tensor = interpreter.getOutputTensorFromSignature(output, SIGNATURE)
        val dtype = TYPES[tensor.dataType()] ?: throw EngineException("the output $output has the type ${tensor.dataType()}")
        return TensorData.allocate(dtype, tensor.shape())
    }

    companion object : EngineLibrary {
        override val label = "LiteRT"

        /** The interpreter maps the file, and has no other way. */
        override val loadModes = listOf(LoadMode.MMAP)

        private const val SIGNATURE = "serving_default"
        private const val NANOS = 1e9

        private val TYPES = mapOf(
            DataType.FLOAT32 to DType.FLOAT32,
            DataType.INT8 to DType.INT8,
            DataType.UINT8 to DType.UINT8,
            DataType.INT32 to DType.INT32,
            DataType.INT64 to DType.INT64,
        )

        override fun loadLibrary() {
            try {
                TensorFlowLite.init()
            } catch (error: LinkageError) {
                throw EngineException("LiteRT's library cannot be loaded; this app has it for arm64-v8a and x86_64", error)
            }
        }

        override fun registeredBackends(): List<String> = listOf("XNNPACK")

        override fun load(program: ModelProgram, threads: Int, loadMode: LoadMode): LoadedEngine {
            require(loadMode)
            val options = Interpreter.Options()
            if (threads > 0) options.setNumThreads(threads)
            val started = System.nanoTime()
            val interpreter = explained("load the model") { Interpreter(program.file, options) }
            val loaded = System.nanoTime()
            try {
                val engine = explained("prepare the model") {
                    interpreter.allocateTensors()
                    LiteRtEngine(interpreter, program)
                }
                return LoadedEngine(engine, LoadTimes((loaded - started) / NANOS, (System.nanoTime() - loaded) / NANOS))
            } catch (error: EngineException) {
                interpreter.close()
                throw error
            }
        }

        /** Outputs have no names of their own in a `.tflite` file of edgex. */
        private fun nameOf(output: Int): String = "output_$output"

        private inline fun <T> explained(doing: String, work: () -> T): T = try {
            work()
        } catch (error: IllegalArgumentException) {
            throw EngineException("LiteRT could not $doing: ${error.message}", error)
        } catch (error: IllegalStateException) {
            throw EngineException("LiteRT could not $doing: ${error.message}", error)
        }
    }
}
