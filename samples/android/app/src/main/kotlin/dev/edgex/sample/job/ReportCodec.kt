package dev.edgex.sample.job

import java.io.ByteArrayOutputStream
import java.util.Base64
import java.util.zip.Deflater
import java.util.zip.DeflaterOutputStream

/** A report as lines of text that travel through `am instrument`: JSON, compressed with zlib, base64, in pieces. */
object ReportCodec {
    /** A line well below what a binder transaction or a terminal takes. */
    const val CHUNK_CHARS = 48_000

    fun encode(json: String, chunkChars: Int = CHUNK_CHARS): List<String> {
        val compressed = ByteArrayOutputStream()
        DeflaterOutputStream(compressed, Deflater(Deflater.BEST_COMPRESSION)).use { it.write(json.toByteArray()) }
        return Base64.getEncoder().encodeToString(compressed.toByteArray()).chunked(chunkChars)
    }
}
