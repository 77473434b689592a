package dev.edgex.model

import dev.edgex.model.tensor.Dim
import dev.edgex.model.tensor.TensorData
import dev.edgex.model.tensor.TensorException
import java.io.File
import org.json.JSONException
import org.junit.Assert.assertArrayEquals
import org.junit.Assert.assertEquals
import org.junit.Assert.assertNull
import org.junit.Assert.assertThrows
import org.junit.Assert.assertTrue
import org.junit.Assume.assumeTrue
import org.junit.Test

class ModelManifestTest {
    @Test
    fun `the manifest is read`() {
        val manifest = Samples.manifest()
        assertEquals(Dim("batch", 1, 8), manifest.inputs.single().spec.dims.first())
        assertEquals(listOf("a", "b", "c"), manifest.labels)
        assertEquals(Activation.LOGITS, manifest.outputs.single().activation)
        assertEquals(listOf("batch"), manifest.dynamicDims.map { it.name })
        assertNull(manifest.imageInput)
        assertEquals(2, manifest.golden[1].steps.size)
    }

    @Test
    fun `what is wrong is named`() {
        val changes = mapOf(
            "edgex.android-model/1" to "edgex.android-model/2",
            "\"float32\"" to "\"bool\"",
            "\"logits\"" to "\"sigmoid\"",
            "\"shape\": [2, 3]" to "\"shape\": [9, 3]",
            "\"parameters\": 9" to "\"parameters\": \"9\"",
            "\"golden\"" to "\"silver\"",
            "\"eager\"" to "\"lazy\"",
        )
        for ((old, new) in changes) {
            val error = assertThrows(new, JSONException::class.java) { ModelManifest.parse(Samples.text().replace(old, new)) }
            assertTrue(error.message, error.message!!.contains("manifest"))
        }
    }

    @Test
    fun `shapes follow the chosen sizes within their bounds`() {
        val spec = Samples.manifest().inputs.single().spec
        assertArrayEquals(intArrayOf(4, 3), spec.shapeFor(mapOf("batch" to 4)))
        assertThrows(TensorException::class.java) { spec.shapeFor(mapOf("batch" to 99)) }
        assertArrayEquals(intArrayOf(1, 3), spec.shapeFor(emptyMap()))
        assertTrue(spec.refusal(intArrayOf(9, 3))!!.contains("outside"))
    }

    /** The assets of generated apps, where -Dedgex.assets names them (several with the path separator between). */
    @Test
    fun `generated manifests are read, and their golden files are whole`() {
        val folders = System.getProperty("edgex.assets")?.split(File.pathSeparator)
        assumeTrue("no -Dedgex.assets", folders != null)
        for (folder in folders!!.map(::File)) {
            val manifest = ModelManifest.parse(File(folder, "manifest.json").readText())
            for (step in manifest.golden.flatMap { it.steps }) {
                val tensors = manifest.inputs.map { it.spec }.zip(step.inputs) + manifest.outputs.map { it.spec }.zip(step.outputs)
                for ((spec, tensor) in tensors) {
                    assertNull(spec.refusal(tensor.shape))
                    val data = TensorData.fromBytes(spec.dtype, tensor.shape, File(folder, tensor.file).readBytes())
                    assertEquals(0, OutputReading.summarize(data).notFinite)
                }
            }
        }
    }
}
