package dev.edgex.sample

import android.app.Activity
import android.content.Intent
import android.net.Uri
import android.view.LayoutInflater
import android.view.View
import android.view.ViewGroup
import android.widget.AdapterView
import android.widget.ArrayAdapter
import android.widget.Button
import android.widget.EditText
import android.widget.ImageView
import android.widget.Spinner
import android.widget.TextView
import dev.edgex.model.InputInfo
import dev.edgex.model.image.PictureLoader
import dev.edgex.model.tensor.Dim

/** A card of the Run screen that sets something of the next run. */
interface InputCard {
    /** Takes over what was typed; false, with a message at the field, where it is not usable. */
    fun commit(): Boolean

    /** Shows what was chosen elsewhere since. */
    fun refresh() = Unit
}

/** One tensor: the example, a constant, random values, or values typed in. */
class TensorCard(parent: ViewGroup, input: InputInfo, private val model: ModelRunner, private val at: Int) : InputCard {
    private val view = LayoutInflater.from(parent.context).inflate(R.layout.tensor_card, parent, false)
    private val typed = view.findViewById<EditText>(R.id.typed)
    private val source = view.findViewById<Spinner>(R.id.source)

    init {
        view.findViewById<TextView>(R.id.name).text = input.spec.name
        view.findViewById<TextView>(R.id.spec).text = input.spec.toString()
        source.contentDescription = view.resources.getString(R.string.source_of, input.spec.name)
        val labels = view.resources.getStringArray(R.array.sources)
        source.adapter = ArrayAdapter(parent.context, android.R.layout.simple_spinner_item, labels).apply {
            setDropDownViewResource(android.R.layout.simple_spinner_dropdown_item)
        }
        // Rows of one card must not share saved state with those of another card of the same layout.
        source.isSaveEnabled = false
        typed.isSaveEnabled = false
        val choice = model.choices[at]
        source.setSelection(KINDS.indexOfFirst { it.isInstance(choice) }.coerceAtLeast(0))
        if (choice is InputChoice.Typed) typed.setText(choice.text)
        source.onItemSelectedListener = object : AdapterView.OnItemSelectedListener {
            override fun onItemSelected(parent: AdapterView<*>?, row: View?, position: Int, id: Long) = onSelected(position)

            override fun onNothingSelected(parent: AdapterView<*>?) = Unit
        }
        parent.addView(view)
    }

    private fun onSelected(position: Int) {
        typed.visibility = if (KINDS[position] == InputChoice.Typed::class) View.VISIBLE else View.GONE
        commit()
    }

    override fun commit(): Boolean {
        model.choices[at] = when (KINDS[source.selectedItemPosition]) {
            InputChoice.Zeros::class -> InputChoice.Zeros
            InputChoice.Ones::class -> InputChoice.Ones
            InputChoice.Random::class -> InputChoice.Random(SEED)
            InputChoice.Typed::class -> InputChoice.Typed(typed.text.toString())
            else -> InputChoice.Golden
        }
        return true
    }

    private companion object {
        const val SEED = 1L

        /** In the order of the string array `sources`. */
        val KINDS = listOf(
            InputChoice.Golden::class,
            InputChoice.Zeros::class,
            InputChoice.Ones::class,
            InputChoice.Random::class,
            InputChoice.Typed::class,
        )
    }
}

/** A picture that the user chooses, with Android's own chooser: no permission is needed for it. */
class PictureCard(
    private val activity: Activity,
    parent: ViewGroup,
    private val input: InputInfo,
    private val model: ModelRunner,
    private val at: Int,
) : InputCard {
    private val view = LayoutInflater.from(activity).inflate(R.layout.picture_card, parent, false)
    private val preview = view.findViewById<ImageView>(R.id.preview)
    private var shown: InputChoice? = null

    init {
        view.findViewById<TextView>(R.id.spec).text = input.spec.toString()
        view.findViewById<Button>(R.id.choose).setOnClickListener {
            val intent = Intent(Intent.ACTION_OPEN_DOCUMENT).addCategory(Intent.CATEGORY_OPENABLE).setType("image/*")
            activity.startActivityForResult(intent, REQUEST)
        }
        view.findViewById<Button>(R.id.example).setOnClickListener {
            model.choices[at] = InputChoice.Golden
            refresh()
        }
        refresh()
        parent.addView(view)
    }

    fun onPicked(uri: Uri) {
        val (height, width) = requireNotNull(input.image).sizeOf(input.spec.shapeFor(model.sizes))
        val loader = PictureLoader(activity.applicationContext.contentResolver)
        model.runOnPicture(at) { PictureLoader.toPicture(loader.load(uri, maxOf(height, width))) }
    }

    override fun commit() = true

    override fun refresh() {
        val choice = model.choices[at]
        if (choice == shown) return
        shown = choice
        val bitmap = (choice as? InputChoice.Photo)?.picture?.let(PictureLoader::toBitmap)
        preview.setImageBitmap(bitmap)
        preview.visibility = if (bitmap == null) View.GONE else View.VISIBLE
        val note = if (bitmap == null) R.string.picture_example else R.string.picture_chosen
        view.findViewById<TextView>(R.id.note).setText(note)
    }

    companion object {
        const val REQUEST = 1
    }
}

/** Sizes of dynamic dimensions. */
class SizesCard(parent: ViewGroup, private val dims: List<Dim>, private val model: ModelRunner) : InputCard {
    private val fields: List<EditText>

    init {
        val inflater = LayoutInflater.from(parent.context)
        fields = dims.map { dim ->
            val row = inflater.inflate(R.layout.size_row, parent, false)
            val field = row.findViewById<EditText>(R.id.size)
            field.id = View.generateViewId()
            field.isSaveEnabled = false
            row.findViewById<TextView>(R.id.name).apply {
                text = dim.toString()
                labelFor = field.id
            }
            field.setText(model.sizes[dim.name].toString())
            parent.addView(row)
            field
        }
    }

    override fun commit(): Boolean {
        var right = true
        for ((dim, field) in dims.zip(fields)) {
            val size = field.text.toString().toIntOrNull()
            if (size == null || size !in dim.min..dim.max) {
                field.error = field.resources.getString(R.string.size_outside, dim.min, dim.max)
                right = false
            } else {
                field.error = null
                model.sizes[dim.name.orEmpty()] = size
            }
        }
        return right
    }
}
