package dev.edgex.model

import android.content.Context
import dev.edgex.model.measure.PreparedModel
import java.io.File
import java.io.FileOutputStream
import java.io.IOException
import java.io.InputStream
import java.io.OutputStream
import java.security.MessageDigest

/**
 * The model as a file: an engine takes a path, and an asset has none.
 *
 * An asset is copied once, to a name that is its digest; what is there under that name is whole, because it was renamed
 * only after its digest was checked. A model that was pushed, or brought by Play, is checked whenever the app starts anew.
 */
class ModelStore(private val context: Context, private val name: String, private val manifest: ModelManifest) {
    private val fileName = "${manifest.model.sha256}.${manifest.model.fileName.substringAfterLast('.')}"
    private val asset = "${EdgeModel.ASSETS}/$name/${manifest.model.fileName}"
    private var checked = false

    val file: File
        get() = when (manifest.model.source) {
            ModelSource.ASSET -> File(File(context.filesDir, "${EdgeModel.ASSETS}/$name"), fileName)
            ModelSource.PACK -> PackDelivery.find(context, PACK, asset)
                ?: throw IOException("Google Play is bringing the model, in the pack $PACK; try again when it is there")
            ModelSource.PUSH -> File(context.getExternalFilesDir(EdgeModel.ASSETS), fileName)
        }

    fun prepare(): PreparedModel = when (manifest.model.source) {
        ModelSource.ASSET -> prepareAsset()
        ModelSource.PUSH, ModelSource.PACK -> PreparedModel(copySeconds = null, verifySeconds = seconds { checkGiven() })
    }

    private fun prepareAsset(): PreparedModel {
        var there = false
        val verify = seconds { there = file.length() == manifest.model.fileBytes }
        if (there) return PreparedModel(copySeconds = null, verifySeconds = verify)
        return PreparedModel(copySeconds = seconds { copyAsset() }, verifySeconds = verify)
    }

    private fun copyAsset() {
        val folder = file.parentFile ?: throw IOException("$file has no folder")
        if (!folder.isDirectory && !folder.mkdirs()) throw IOException("the folder $folder cannot be made")
        folder.listFiles()?.forEach { it.delete() }
        val part = File(folder, "$fileName.part")
        try {
            val digest = context.assets.open(asset).use { input ->
                FileOutputStream(part).use { output -> copy(input, output).also { output.fd.sync() } }
            }
            requireDigest(digest, manifest.model.sha256, "the model in this app's assets")
            if (!part.renameTo(file)) throw IOException("$part cannot be renamed")
        } finally {
            part.delete()
        }
    }

    private fun checkGiven() {
        if (checked) return
        val file = file
        if (!file.isFile) {
            throw IOException("The model is not on this device yet. Push it:\nadb push ${manifest.model.fileName} $file")
        }
        requireDigest(hash(file), manifest.model.sha256, "the model that was brought")
        manifest.model.weights?.let { weights ->
            val beside = File(file.parentFile, weights.fileName)
            if (!beside.isFile) throw IOException("The model's weights are not on this device yet. Push them:\nadb push ${weights.fileName} $beside")
            requireDigest(hash(beside), weights.sha256, "the weights that were brought")
        }
        checked = true
    }

    private fun requireDigest(digest: String, expected: String, what: String) {
        if (digest != expected) throw IOException("$what has the digest ${digest.take(12)}…, not ${expected.take(12)}…")
    }

    private companion object {
        /** The module that holds the model where it comes in a pack of its own. */
        const val PACK = "modelpack"
    }

    private inline fun seconds(work: () -> Unit): Double {
        val started = System.nanoTime()
        work()
        return (System.nanoTime() - started) / 1e9
    }
}

/** SHA-256 of a file, in hex. */
fun hash(file: File): String = file.inputStream().use { copy(it, null) }

/** Copies, and gives the SHA-256 of what was read. */
private fun copy(input: InputStream, output: OutputStream?): String {
    val digest = MessageDigest.getInstance("SHA-256")
    val buffer = ByteArray(1 shl 20)
    while (true) {
        val count = input.read(buffer)
        if (count < 0) break
        digest.update(buffer, 0, count)
        output?.write(buffer, 0, count)
    }
    return digest.digest().joinToString("") { "%02x".format(it) }
}
