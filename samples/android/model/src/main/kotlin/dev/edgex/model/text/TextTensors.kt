package dev.edgex.model.text

import dev.edgex.model.ModelManifest
import dev.edgex.model.tensor.TensorData

/** A text as all inputs of a model, in their order: cut or filled up where their size asks for it. */
fun WordPiece.tensorsOf(text: String, manifest: ModelManifest): List<TensorData> {
    val format = requireNotNull(manifest.text)
    val room = manifest.inputs[format.ids].spec.dims[1]
    val ids = encode(text, room.max)
    val length = maxOf(ids.size, room.min)
    return manifest.inputs.mapIndexed { place, input ->
        TensorData.allocate(input.spec.dtype, intArrayOf(1, length)).also { tensor ->
            for (at in 0 until length) {
                val isText = at < ids.size
                tensor[at] = when (place) {
                    format.ids -> if (isText) ids[at] else format.padding
                    format.mask -> if (isText) 1 else 0
                    else -> 0
                }.toDouble()
            }
        }
    }
}
