package dev.edgex.model

import android.content.Context
import java.io.File

/** Where Google Play puts a model that it brings after the installation; in this library, none is brought so. */
internal object PackDelivery {
    fun find(context: Context, pack: String, asset: String): File? =
        throw IllegalStateException("${context.packageName} holds no library for Play's packs: no $asset of $pack")
}
