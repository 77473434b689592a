import dev.edgex.model.ModelManifest
import dev.edgex.model.text.WordPiece
import dev.edgex.model.text.tensorsOf
import java.io.File

/** Ids of each text in a file, a JSON string a line, by the tokenizer of a generated library: those of its first input. */
fun main(arguments: Array<String>) {
    val (assets, texts) = arguments.map(::File)
    val manifest = ModelManifest.parse(File(assets, "manifest.json").readText())
    val format = manifest.text!!
    val tokenizer = WordPiece(format, File(assets, format.vocabularyFile).readText().removeSuffix("\n").split('\n'))
    for (line in texts.readLines()) {
        val tensors = tokenizer.tensorsOf(org.json.JSONArray(line).getString(0), manifest)
        println(tensors.joinToString(";") { tensor -> (0 until tensor.size).joinToString(",") { tensor[it].toLong().toString() } })
    }
}
