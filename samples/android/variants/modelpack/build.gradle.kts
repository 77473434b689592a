plugins {
    id("com.android.ai-pack")
}

aiPack {
    packName = "modelpack"
    dynamicDelivery {
        deliveryType = "install-time"
    }
}
