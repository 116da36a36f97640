"""PTX text to instructions; nothing here knows what an instruction does."""
