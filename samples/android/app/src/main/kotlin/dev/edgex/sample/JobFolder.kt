package dev.edgex.sample

import android.content.Context
import dev.edgex.model.AndroidPlatform
import dev.edgex.model.EdgeModel
import dev.edgex.model.engine.InferenceEngine
import dev.edgex.model.engine.LoadMode
import dev.edgex.model.engine.ModelProgram
import dev.edgex.model.engine.modelEngine
import dev.edgex.model.hash
import dev.edgex.model.tensor.DType
import dev.edgex.model.tensor.TensorData
import dev.edgex.sample.job.Job
import dev.edgex.sample.job.JobPlatform
import java.io.File
import java.io.IOException
import java.nio.channels.Channels

/**
 * The files of one run of `edgex --device adb`, in the app's external folder: `job-RUN`, beside the models.
 *
 * The app makes it before anything is sent: of a folder that the shell made, not every Android lets an app read.
 */
class JobFolder(context: Context, runId: String) {
    private val models: File = context.getExternalFilesDir(EdgeModel.ASSETS)
        ?: throw IOException("the app's external folder is not there: is the device's storage mounted?")

    private val folder = File(models, "job-$runId")

    fun make() {
        if (!folder.isDirectory && !folder.mkdirs()) throw IOException("the folder $folder cannot be made")
    }

    fun readJob(): Job = Job.parse(file("job.json").readText())

    fun model(job: Job): File = File(models, "${job.modelSha256}.pte").also {
        if (!it.isFile) throw IOException("the model $it was not sent")
    }

    fun file(name: String): File = File(folder, name)

    /** Whole or not there: whoever waits for the answer reads it as soon as it appears. */
    fun writeAnswer(json: String) {
        make()
        val part = file("answer.json.part")
        part.writeText(json)
        if (!part.renameTo(file("answer.json"))) throw IOException("$part cannot be renamed")
    }
}

/** A job's files, and the engine. */
class JobFiles(private val folder: JobFolder, private val job: Job, private val platform: AndroidPlatform) : JobPlatform {
    override fun hashModel(): String = hash(folder.model(job))

    override fun loadLibrary() = platform.loadLibrary()

    override fun load(threads: Int, loadMode: LoadMode) = modelEngine.load(ModelProgram(folder.model(job)), threads, loadMode)

    override fun readInput(file: String, dtype: DType, shape: IntArray): TensorData =
        TensorData.fromBytes(dtype, shape, folder.file(file).readBytes())

    override fun writeOutput(file: String, data: TensorData) {
        folder.file(file).outputStream().use { Channels.newChannel(it).write(data.bytes.duplicate()) }
    }

    override fun readState() = platform.readState()

    override fun readMemory() = platform.readMemory()

    override fun writeTrace(engine: InferenceEngine): String? = engine.writeTrace(folder.file("trace.etdump"))
}
