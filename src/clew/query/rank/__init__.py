"""Operations on ranked lists of hits: fuse, dedupe, diversify, smooth, balance."""
