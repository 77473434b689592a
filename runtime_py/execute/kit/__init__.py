"""What a device without Python needs: the native runner with its libraries, alone or in a bundle."""
