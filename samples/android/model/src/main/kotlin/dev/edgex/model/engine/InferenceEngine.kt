package dev.edgex.model.engine

import dev.edgex.model.tensor.TensorData
import java.io.Closeable
import java.io.File

/** A loaded model. One thread at a time. */
interface InferenceEngine : Closeable {
    /** Takes the inputs of the runs that follow; their memory is read at each run. */
    fun bind(inputs: List<TensorData>)

    /** Runs once on the bound inputs. This alone is what is timed. */
    fun run()

    /** Copies of the outputs of the last run. */
    fun outputs(): List<TensorData>

    /** Writes what the operators of the runs so far took to a file; null where it did, else why there is no such trace. */
    fun writeTrace(file: File): String? = "this engine writes no trace of its operators here"
}

/** How long it took to make a model ready, in seconds; [program] is null where the engine reads and prepares it in one go. */
data class LoadTimes(val program: Double?, val method: Double)

data class LoadedEngine(val engine: InferenceEngine, val times: LoadTimes)

/** Whoever can load the model: an engine on a device, arithmetic in a test. Threads: 0 leaves the number to the engine. */
fun interface EngineLoader {
    fun load(threads: Int, loadMode: LoadMode): LoadedEngine
}

/** How the model's file is brought into memory. */
enum class LoadMode(val label: String) {
    MMAP("mmap"),
    FILE("file"),
    MLOCK("mlock"),
}

/** The engine refused to load or run the model; the message says why and what may help. */
class EngineException(message: String, cause: Throwable? = null) : Exception(message, cause)
