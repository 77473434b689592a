package dev.edgex.sample

import android.app.Application
import dev.edgex.model.AndroidPlatform
import dev.edgex.model.EdgeModel
import dev.edgex.model.ModelManifest

/** What outlives every screen: the model of the library beside this app, and what is known of it. */
class SampleApplication : Application() {
    private val modelName: String by lazy { EdgeModel.names(this).first() }

    /** Fails with a message that names what is wrong with the model's description. */
    val manifest: ModelManifest by lazy { EdgeModel.readManifest(this, modelName) }

    val platform: AndroidPlatform by lazy { AndroidPlatform(this, modelName, manifest) }

    val model: EdgeModel by lazy { EdgeModel(manifest, platform) }

    val runner: ModelRunner by lazy { ModelRunner(model, platform) }

    val benchmark: BenchmarkRunner by lazy { BenchmarkRunner(this) }
}
