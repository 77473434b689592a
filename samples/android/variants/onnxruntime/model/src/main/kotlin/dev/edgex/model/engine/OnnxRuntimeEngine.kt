package dev.edgex.model.engine

import ai.onnxruntime.OnnxJavaType
import ai.onnxruntime.OnnxTensor
import ai.onnxruntime.OnnxValue
import ai.onnxruntime.OrtEnvironment
import ai.onnxruntime.OrtException
import ai.onnxruntime.OrtSession
import dev.edgex.model.tensor.DType
import dev.edgex.model.tensor.TensorData
import dev.edgex.model.tensor.elementCount

/** ONNX Runtime behind [InferenceEngine]. Inputs and outputs go by their place, as in the export; those of the state are the last. */
class OnnxRuntimeEngine private constructor(
    private val session: OrtSession,
    private val options: OrtSession.SessionOptions,
    state: List<CarriedState>,
) : InferenceEngine {
    private val inputNames = session.inputNames.toList().dropLast(state.size)
    private val stateNames = session.inputNames.toList().takeLast(state.size)
    private val outputCount = session.outputNames.size - state.size
    private var inputs = emptyMap<String, OnnxTensor>()
    private var result: OrtSession.Result? = null

    private val initial = state.map { toTensor(it.initial) }

    // What the next run is given: what the last one gave, whose result it belongs to.
    private var carried = stateNames.zip(initial)

    override fun bind(inputs: List<TensorData>) {
        if (inputs.size != inputNames.size) throw EngineException("the model takes ${inputNames.size} inputs, not ${inputs.size}")
        freeInputs()
        this.inputs = explained("take the inputs") { inputNames.zip(inputs).associate { (name, data) -> name to toTensor(data) } }
    }

    override fun run() {
        check(inputs.isNotEmpty()) { "no inputs are bound" }
        val found = explained("run the model") { session.run(inputs + carried) }
        result?.close()
        result = found
        carried = stateNames.mapIndexed { at, name -> name to tensorOf(name, found.get(outputCount + at)) }
    }

    override fun outputs(): List<TensorData> = checkNotNull(result) { "the model has not run" }.take(outputCount).map { (name, value) ->
        fromTensor(name, tensorOf(name, value))
    }

    override fun close() {
        result?.close()
        initial.forEach { it.close() }
        freeInputs()
        session.close()
        options.close()
    }

    private fun freeInputs() {
        inputs.values.forEach { it.close() }
        inputs = emptyMap()
    }

    private fun tensorOf(name: String, value: OnnxValue): OnnxTensor =
        value as? OnnxTensor ?: throw EngineException("the output $name is not a tensor")

    /** Not copied: the tensor reads the memory of [data] at each run. */
    private fun toTensor(data: TensorData): OnnxTensor {
        val environment = OrtEnvironment.getEnvironment()
        val shape = LongArray(data.shape.size) { data.shape[it].toLong() }
        val bytes = data.bytes
        return when (data.dtype) {
            DType.FLOAT32 -> OnnxTensor.createTensor(environment, bytes.asFloatBuffer(), shape)
            DType.FLOAT64 -> OnnxTensor.createTensor(environment, bytes.asDoubleBuffer(), shape)
            DType.FLOAT16 -> OnnxTensor.createTensor(environment, bytes, shape, OnnxJavaType.FLOAT16)
            DType.INT8 -> OnnxTensor.createTensor(environment, bytes, shape, OnnxJavaType.INT8)
            DType.UINT8 -> OnnxTensor.createTensor(environment, bytes, shape, OnnxJavaType.UINT8)
            DType.INT32 -> OnnxTensor.createTensor(environment, bytes.asIntBuffer(), shape)
            DType.INT64 -> OnnxTensor.createTensor(environment, bytes.asLongBuffer(), shape)
        }
    }

    private fun fromTensor(name: String, tensor: OnnxTensor): TensorData {
        val info = tensor.info
        val dtype = TYPES[info.type] ?: throw EngineException("the output $name has the type ${info.type}")
        val shape = info.shape
        val data = TensorData.allocate(dtype, IntArray(shape.size) { Math.toIntExact(shape[it]) })
        if (elementCount(data.shape) > 0) data.bytes.duplicate().put(tensor.byteBuffer)
        return data
    }

    companion object : EngineLibrary {
        private const val NANOS = 1e9

        private val TYPES = mapOf(
            OnnxJavaType.FLOAT to DType.FLOAT32,
            OnnxJavaType.DOUBLE to DType.FLOAT64,
            OnnxJavaType.FLOAT16 to DType.FLOAT16,
            OnnxJavaType.INT8 to DType.INT8,
            OnnxJavaType.UINT8 to DType.UINT8,
            OnnxJavaType.INT32 to DType.INT32,
            OnnxJavaType.INT64 to DType.INT64,
        )

        override val label = "ONNX Runtime"

        /** It reads the file itself, and neither maps nor locks it. */
        override val loadModes = listOf(LoadMode.FILE)

        /** Builds from 1.29 on report to their makers unless this is set first; the one of this project has no such code. */
        override val environment = mapOf("ORT_DISABLE_TELEMETRY" to "1")

        override fun loadLibrary() {
            try {
                OrtEnvironment.getEnvironment().setTelemetry(false)
            } catch (error: LinkageError) {
                throw EngineException("ONNX Runtime's library cannot be loaded; this app has it for arm64-v8a and x86_64", error)
            }
        }

        override fun registeredBackends(): List<String> = OrtEnvironment.getAvailableProviders().map { it.getName() }

        /** Reading the file and preparing its kernels is one call of ONNX Runtime's. */
        override fun load(program: ModelProgram, threads: Int, loadMode: LoadMode): LoadedEngine {
            require(loadMode)
            val started = System.nanoTime()
            val options = OrtSession.SessionOptions()
            try {
                if (threads > 0) options.setIntraOpNumThreads(threads)
                options.setInterOpNumThreads(1)
                options.setOptimizationLevel(OrtSession.SessionOptions.OptLevel.ALL_OPT)
                val session = explained("load the model") {
                    program.provider?.let { options.use(it) }
                    OrtEnvironment.getEnvironment().createSession(program.file.path, options)
                }
                val times = LoadTimes(program = null, method = (System.nanoTime() - started) / NANOS)
                return LoadedEngine(OnnxRuntimeEngine(session, options, program.state), times)
            } catch (error: EngineException) {
                options.close()
                throw error
            }
        }

        private inline fun <T> explained(doing: String, work: () -> T): T = try {
            work()
        } catch (error: OrtException) {
            throw EngineException("ONNX Runtime could not $doing: ${error.message}", error)
        }
    }
}
