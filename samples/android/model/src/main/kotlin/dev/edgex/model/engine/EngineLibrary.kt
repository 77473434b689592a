package dev.edgex.model.engine

/** An engine as a native library, and how it loads a model. Each is one file here, and nothing else names its classes. */
interface EngineLibrary {
    /** The engine as people write it. */
    val label: String

    /** The ways in which it can bring a file into memory; the first is the usual one. */
    val loadModes: List<LoadMode>

    /** Variables of the process that must be set before the library is loaded. */
    val environment: Map<String, String> get() = emptyMap()

    /** Loads the native library; an error says which processors it exists for. */
    fun loadLibrary()

    /** What it can compute with, by the engine's own names. */
    fun registeredBackends(): List<String>

    /** Threads: 0 leaves the number to the engine. A way of loading that it does not have is refused. */
    fun load(program: ModelProgram, threads: Int, loadMode: LoadMode): LoadedEngine

    fun require(loadMode: LoadMode) {
        if (loadMode !in loadModes) {
            throw EngineException("$label has no load mode ${loadMode.label}; it has ${loadModes.joinToString { it.label }}")
        }
    }
}
