package dev.edgex.model

import android.content.Context
import com.google.android.play.core.aipacks.AiPackManagerFactory
import java.io.File

/** Where Google Play puts a model that it brings after the installation. */
internal object PackDelivery {
    /** The file of an AI pack; null while the pack is not on the device, and then Play is asked to bring it. */
    fun find(context: Context, pack: String, asset: String): File? {
        val manager = AiPackManagerFactory.getInstance(context)
        val folder = manager.getPackLocation(pack)?.assetsPath()
        if (folder != null) return File(folder, asset)
        manager.fetch(listOf(pack))
        return null
    }
}
