package dev.edgex.sample

import android.app.Application
import dev.edgex.sample.core.AppManifest
import java.util.concurrent.ExecutorService
import java.util.concurrent.Executors

/** What outlives every screen: the manifest, and the one thread on which the model is loaded and run. */
class SampleApplication : Application() {
    /** One thread for all native work: a module serves one thread at a time, and its thread pool is the process's. */
    private val worker: ExecutorService = Executors.newSingleThreadExecutor { Thread(it, "model") }

    /** Fails with a message that names what is wrong with `assets/edgex/manifest.json`. */
    val manifest: AppManifest by lazy {
        AppManifest.parse(assets.open(MANIFEST).bufferedReader().use { it.readText() })
    }

    val platform: AndroidPlatform by lazy { AndroidPlatform(this, manifest) }

    val model: ModelRunner by lazy { ModelRunner(manifest, platform, worker) }

    val benchmark: BenchmarkRunner by lazy { BenchmarkRunner(this, worker) }

    companion object {
        const val ASSETS = "edgex"
        private const val MANIFEST = "$ASSETS/manifest.json"
    }
}
