package dev.edgex.model.image

import android.content.ContentResolver
import android.graphics.Bitmap
import android.graphics.BitmapFactory
import android.graphics.ImageDecoder
import android.net.Uri
import android.os.Build
import java.io.IOException

/** Reads a picture that the user chose, not larger than it needs to be. Turned as its metadata say from Android 9 on. */
class PictureLoader(private val resolver: ContentResolver) {
    /** A bitmap whose shorter side has at least [atLeast] pixels, if the picture has. */
    fun load(uri: Uri, atLeast: Int): Bitmap =
        if (Build.VERSION.SDK_INT >= 28) {
            ImageDecoder.decodeBitmap(ImageDecoder.createSource(resolver, uri)) { decoder, info, _ ->
                decoder.allocator = ImageDecoder.ALLOCATOR_SOFTWARE // pixels of the others cannot be read
                decoder.setTargetSampleSize(Resize.sampleSize(info.size.width, info.size.height, atLeast))
            }
        } else {
            decodeOld(uri, atLeast)
        }

    private fun decodeOld(uri: Uri, atLeast: Int): Bitmap {
        val options = BitmapFactory.Options().apply { inJustDecodeBounds = true }
        open(uri).use { BitmapFactory.decodeStream(it, null, options) }
        options.inSampleSize = Resize.sampleSize(options.outWidth, options.outHeight, atLeast)
        options.inJustDecodeBounds = false
        return open(uri).use { BitmapFactory.decodeStream(it, null, options) } ?: throw IOException("this is not a picture")
    }

    private fun open(uri: Uri) = resolver.openInputStream(uri) ?: throw IOException("$uri cannot be opened")

    companion object {
        fun toPicture(bitmap: Bitmap): Picture {
            val pixels = IntArray(bitmap.width * bitmap.height)
            bitmap.getPixels(pixels, 0, bitmap.width, 0, 0, bitmap.width, bitmap.height)
            return Picture(bitmap.width, bitmap.height, pixels)
        }

        fun toBitmap(picture: Picture): Bitmap =
            Bitmap.createBitmap(picture.pixels, picture.width, picture.height, Bitmap.Config.ARGB_8888)
    }
}
