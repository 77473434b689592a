package dev.edgex.model

import android.content.Context
import android.content.pm.ApplicationInfo
import android.system.Os
import dev.edgex.model.engine.InferenceEngine
import dev.edgex.model.engine.LoadMode
import dev.edgex.model.engine.LoadedEngine
import dev.edgex.model.engine.modelEngine
import dev.edgex.model.measure.DeviceProbe
import dev.edgex.model.measure.DeviceState
import dev.edgex.model.measure.GoldenValues
import dev.edgex.model.measure.MemoryReading
import dev.edgex.model.measure.Platform
import dev.edgex.model.measure.PreparedModel
import dev.edgex.model.tensor.TensorData
import dev.edgex.model.tensor.TensorSpec
import java.io.File

/** What the model in `assets/edgex/NAME` and its benchmark need of Android: files, the engine, and the state of the device. */
class AndroidPlatform(private val context: Context, private val name: String, private val manifest: ModelManifest) : Platform {
    private val store = ModelStore(context, name, manifest)
    private val probe = DeviceProbe(context)
    private var librarySeconds: Double? = null

    override val isDebuggable: Boolean
        get() = context.applicationInfo.flags and ApplicationInfo.FLAG_DEBUGGABLE != 0

    override fun prepareModel(): PreparedModel = store.prepare()

    override fun loadLibrary(): Double = librarySeconds ?: run {
        val started = System.nanoTime()
        modelEngine.environment.forEach { (name, value) -> Os.setenv(name, value, true) }
        modelEngine.loadLibrary()
        ((System.nanoTime() - started) / 1e9).also { librarySeconds = it }
    }

    override fun load(threads: Int, loadMode: LoadMode): LoadedEngine =
        modelEngine.load(manifest.program(store.file) { readAsset(it.spec, it.values) }, threads, loadMode)

    override val loadModes: List<LoadMode> get() = modelEngine.loadModes

    override fun readGolden(step: GoldenStep): GoldenValues = GoldenValues(
        manifest.inputs.zip(step.inputs).map { (input, tensor) -> readAsset(input.spec, tensor) },
        manifest.outputs.zip(step.outputs).map { (output, tensor) -> readAsset(output.spec, tensor) },
    )

    override fun readText(file: String): String =
        context.assets.open("${EdgeModel.ASSETS}/$name/$file").bufferedReader().use { it.readText() }

    override fun readState(): DeviceState = probe.readState()

    override fun readMemory(): MemoryReading = probe.readMemory()

    override fun registeredBackends(): List<String> = modelEngine.registeredBackends()

    override fun writeTrace(engine: InferenceEngine, runId: String): String? {
        val folder = reportFolder() ?: return "the app's external folder is not there"
        return engine.writeTrace(File(folder, "trace-$runId.etdump"))
    }

    fun describeDevice() = probe.describe()

    /** Where reports are written for `adb pull`; null while the storage is not mounted. */
    fun reportFolder(): File? = context.getExternalFilesDir(EdgeModel.ASSETS)

    private fun readAsset(spec: TensorSpec, tensor: AssetTensor): TensorData {
        val content = context.assets.open("${EdgeModel.ASSETS}/$name/${tensor.file}").use { it.readBytes() }
        return TensorData.fromBytes(spec.dtype, tensor.shape, content)
    }
}
