package dev.edgex.model

import android.graphics.Bitmap
import dev.edgex.model.image.Detection
import dev.edgex.model.image.PictureLoader
import dev.edgex.model.tensor.TensorData

/** A picture as this input: resized and normalised as the model card says. Sizes are those of dynamic dimensions. */
fun InputInfo.tensorOf(picture: Bitmap, sizes: Map<String, Int> = emptyMap()): TensorData {
    val format = requireNotNull(image) { "${spec.name} takes no pictures: its model card has no image entry" }
    return TensorData.allocate(spec.dtype, spec.shapeFor(sizes)).also { format.fill(PictureLoader.toPicture(picture), it) }
}

/** The likeliest classes of the first row of the scores. */
fun EdgeModel.guesses(run: ModelRun, count: Int): List<Guess> {
    val at = manifest.outputs.indexOfFirst { it.activation != null }
    require(at >= 0) { "${manifest.model.name} is no classifier: it has no labels" }
    val isLogits = manifest.outputs[at].activation == Activation.LOGITS
    return OutputReading.topGuesses(run.outputs[at], row = 0, manifest.labels, isLogits, count)
}

/** What was found in the picture that [input] was made from, best first. */
fun EdgeModel.detections(run: ModelRun, input: TensorData): List<Detection> {
    val format = requireNotNull(manifest.detection) { "the model card of ${manifest.model.name} does not say how boxes are coded" }
    val image = requireNotNull(manifest.imageInput?.image) { "${manifest.model.name} does not take one picture" }
    val (height, width) = image.sizeOf(input.shape)
    return format.read(run.outputs, height, width, manifest.labels)
}

/** The picture that the model gave. */
fun EdgeModel.picture(run: ModelRun): Bitmap {
    val at = manifest.outputs.indexOfFirst { it.image != null }
    require(at >= 0) { "the model card of ${manifest.model.name} has no output_image entry" }
    return PictureLoader.toBitmap(manifest.outputs[at].image!!.read(run.outputs[at]))
}
